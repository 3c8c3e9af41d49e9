"""`Trust`: whose signature a `SKILL.md` carries, and whether that counts here (SKILL-17).

A signature is one line of the file's metadata and is over all the rest of the file: name, version, state, hashes of
code and tests, provenance and the gate's report. So nothing of it can be changed, and it fits no other name or version.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from acquired_skills.model.skill import NotSigned, SkillDamaged, SkillUnsignable
from engine.registry.signing import SigningKey, verifies
from engine.registry.static import RegistryError

_PURPOSE = b"knackbox skill\0"  # so that a signature made for something else by the same key is none for a skill
_ANY = re.compile(rb"^\s*knackbox-signature", re.MULTILINE)
_LINE = re.compile(rb"\n  knackbox-signature: ed25519:([0-9a-f]{64}):([0-9a-f]{128})(?=\n|\Z)")
_END = b"\n---\n"  # of the front matter, whose last block is the metadata; no signature is looked for below it


@dataclass(frozen=True, slots=True)
class Trust:
    """key: signs what is written here, as soon as it is there; None: nothing is signed. trusted: public keys that count
    besides it, in hexadecimal. required: whether what nobody signed is kept off; None: as soon as there is any key.
    """

    key: SigningKey | None = None
    trusted: frozenset[str] = frozenset()
    required: bool | None = None

    @property
    def signs(self) -> bool:
        """Whether there is a key to sign with. Another process may have made it meanwhile."""
        return self.key is not None and self.key.exists

    @property
    def checks(self) -> bool:
        """Whether signatures are looked at; without any key there is nothing to hold them against."""
        return self.signs or bool(self.trusted) or bool(self.required)

    @property
    def demands(self) -> bool:
        """Whether what nobody signed is kept off."""
        return self.checks if self.required is None else self.required

    def seal(self, data: bytes) -> bytes:
        """The file with our signature in place of any other. Raises SkillUnsignable where only others' keys are."""
        bare = _bare(data)
        if self.key is None or not self.signs:
            if self.demands:
                raise SkillUnsignable(
                    "Nothing can be written where signatures are required and there is no key to sign with: "
                    "`knackbox skills sign --new-key` makes one."
                )
            return bare
        try:
            signature, public = self.key.sign(_PURPOSE + bare), self.key.public
        except RegistryError as error:
            raise SkillUnsignable(str(error)) from error
        line = f"\n  knackbox-signature: ed25519:{public}:{signature}".encode()
        return bare.replace(_END, line + _END, 1)

    def check(self, data: bytes, where: str) -> str:
        """The public key that signed the file; "" for none. Raises SkillDamaged when it is not as it was signed,
        NotSigned when nobody did whom we trust and that is required.
        """
        if not self.checks:
            return ""
        found = signer(data, where)
        if not found:
            if self.demands:
                raise NotSigned(
                    f"{where} is not signed, so it is not offered. Look at it; `knackbox skills sign` signs it, and "
                    "`knackbox skills import` has it prove itself again."
                )
            return ""
        if found not in self._known():
            raise NotSigned(
                f"{where} is signed by {found}, whom nobody trusts here, so it is not offered. Add that key to "
                "`trusted_keys` of `[skills]`, or have it prove itself with `knackbox skills import`."
            )
        return found

    def _known(self) -> Iterable[str]:
        try:
            return self.trusted | {self.key.public} if self.key is not None and self.signs else self.trusted
        except RegistryError as error:
            raise NotSigned(f"{error} Until then no signature of it counts.") from error


def signer(data: bytes, where: str) -> str:
    """The public key that signed exactly this file, whoever that is; "" without a signature. Raises SkillDamaged."""
    head = data.partition(_END)[0]
    lines = _LINE.findall(head)
    if len(_ANY.findall(head)) != len(lines) or len(lines) > 1:
        raise SkillDamaged(f"{where} carries a signature that cannot be read.")
    if not lines:
        return ""
    public, signature = str(lines[0][0], "ascii"), str(lines[0][1], "ascii")
    if not verifies(public, signature, _PURPOSE + _bare(data)):
        raise SkillDamaged(f"{where} is not what was signed (by {public}): it was changed since.")
    return public


def _bare(data: bytes) -> bytes:
    head, end, body = data.partition(_END)
    return _LINE.sub(b"", head) + end + body
