"""`Trust`: makes and checks the signatures of `SKILL.md` files (SKILL-17).

A signature is one line of the file's metadata and covers the rest of the file: name, version, state, hashes of code and
tests, provenance and the admission report. So a change of any of these is detected, and a signature is valid only for
one version of one skill.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from acquired_skills.model.skill import NotSigned, SkillDamaged, SkillUnsignable
from engine.registry.signing import SigningKey, verifies
from engine.registry.static import RegistryError

_PURPOSE = b"knackbox skill\0"  # prefix of signed data, so that no other signature by the same key is valid for a skill
_ANY = re.compile(rb"^\s*knackbox-signature", re.MULTILINE)
_LINE = re.compile(rb"\n  knackbox-signature: ed25519:([0-9a-f]{64}):([0-9a-f]{128})(?=\n|\Z)")
_END = b"\n---\n"  # the end of the front matter, whose last block is the metadata; signatures below it are ignored


@dataclass(frozen=True, slots=True)
class Trust:
    """Checks and makes signatures with the keys of a home.

    Attributes:
        key: The signing key, whose file may be created later; None if nothing is signed.
        trusted: Other trusted public keys, in hexadecimal.
        required: Whether unsigned skills are refused. None means that they are refused if there is any key.
    """

    key: SigningKey | None = None
    trusted: frozenset[str] = frozenset()
    required: bool | None = None

    @property
    def signs(self) -> bool:
        """Whether there is a key to sign with. Its file is checked each time, since other processes may create it."""
        return self.key is not None and self.key.exists

    @property
    def checks(self) -> bool:
        """Whether signatures are checked, which is possible only with at least one key."""
        return self.signs or bool(self.trusted) or bool(self.required)

    @property
    def demands(self) -> bool:
        """Whether unsigned skills are refused."""
        return self.checks if self.required is None else self.required

    def seal(self, data: bytes) -> bytes:
        """Return the file with a new signature, which replaces an existing one.

        If there is no key and signatures are not required, the file is returned without a signature.

        Raises:
            SkillUnsignable: Signatures are required, and there is no key to sign with.
        """
        bare = _bare(data)
        if self.key is None or not self.signs:
            if self.demands:
                raise SkillUnsignable(
                    "Nothing was written, because skills must be signed and there is no key to sign with. Make one "
                    "with `knackbox skills sign --new-key`."
                )
            return bare
        try:
            signature, public = self.key.sign(_PURPOSE + bare), self.key.public
        except RegistryError as error:
            raise SkillUnsignable(str(error)) from error
        line = f"\n  knackbox-signature: ed25519:{public}:{signature}".encode()
        return bare.replace(_END, line + _END, 1)

    def check(self, data: bytes, where: str) -> str:
        """Return the public key that signed the file; "" if it is unsigned.

        Raises:
            SkillDamaged: The file was changed after it was signed.
            NotSigned: No trusted key signed the file, and signatures are required.
        """
        if not self.checks:
            return ""
        found = signer(data, where)
        if not found:
            if self.demands:
                raise NotSigned(
                    f"{where} is not signed, so it is not offered. Inspect it, then sign it with `knackbox skills "
                    "sign` or admit it again with `knackbox skills import`."
                )
            return ""
        if found not in self._known():
            raise NotSigned(
                f"{where} is signed by {found}, which is not trusted here, so it is not offered. Add that key to "
                "`trusted_keys` of `[skills]`, or admit it again with `knackbox skills import`."
            )
        return found

    def _known(self) -> Iterable[str]:
        try:
            return self.trusted | {self.key.public} if self.key is not None and self.signs else self.trusted
        except RegistryError as error:
            raise NotSigned(
                f"{error} Without a usable signing key, the signatures of this home are not trusted."
            ) from error


def signer(data: bytes, where: str) -> str:
    """Return the public key that signed exactly this file, even if it is not trusted; "" if it is unsigned.

    Raises:
        SkillDamaged: The signature cannot be read, or the file was changed after it was signed.
    """
    head = data.partition(_END)[0]
    lines = _LINE.findall(head)
    if len(_ANY.findall(head)) != len(lines) or len(lines) > 1:
        raise SkillDamaged(f"{where} has a malformed signature.")
    if not lines:
        return ""
    public, signature = str(lines[0][0], "ascii"), str(lines[0][1], "ascii")
    if not verifies(public, signature, _PURPOSE + _bare(data)):
        raise SkillDamaged(f"{where} was changed after it was signed (by {public}).")
    return public


def _bare(data: bytes) -> bytes:
    head, end, body = data.partition(_END)
    return _LINE.sub(b"", head) + end + body
