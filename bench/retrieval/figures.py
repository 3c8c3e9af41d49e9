"""Figures of retrieval: recall, the share of requests with all answers, and the AUROC of confidences."""

from collections.abc import Mapping, Sequence

import numpy as np

from bench.retrieval.methods import Found
from bench.retrieval.public_data import Request

CUTS = (1, 5, 10)
RECALL = ("r@1", "r@5", "r@10")
ONE_NAME = ("one name r@1", "one name r@5", "one name r@10")
Results = Sequence[tuple[Request, list[Found]]]


def recall(results: Results, names: Mapping[str, str] | None = None) -> dict[str, float]:
    """Return the mean share of the answers among the first 1, 5 and 10 results.

    Args:
        results: Requests with what was found for them.
        names: Names of documents by id. If given, the figures are also computed with documents of one name counted as
            one.
    """
    sums = dict.fromkeys((*RECALL, *(ONE_NAME if names is not None else ())), 0.0)
    for request, found in results:
        ids = [each.id for each in found]
        for cut in CUTS:
            sums[f"r@{cut}"] += len(request.relevant.intersection(ids[:cut])) / len(request.relevant)
        if names is not None:
            answers = {names[id_] for id_ in request.relevant}
            once = list(dict.fromkeys(names[id_] for id_ in ids))
            for cut in CUTS:
                sums[f"one name r@{cut}"] += len(answers.intersection(once[:cut])) / len(answers)
    return {field: total / max(len(results), 1) for field, total in sums.items()}


def all_found(results: Results, cut: int) -> float:
    """Return the share of requests for which all answers are among the first `cut` results."""
    complete = sum(request.relevant <= {each.id for each in found[:cut]} for request, found in results)
    return complete / max(len(results), 1)


def best_confidence(found: Sequence[Found]) -> float:
    """Return the confidence of the most certain result; 0 if nothing was found."""
    return max((each.confidence for each in found), default=0.0)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the probability that a random positive value is above a random negative one. A tie counts as one half."""
    ordered = np.sort(np.array(negative, dtype=np.float64))
    values = np.array(positive, dtype=np.float64)
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return float(below.sum()) / 2 / max(len(positive) * len(negative), 1)
