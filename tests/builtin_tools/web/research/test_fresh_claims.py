"""Claims that were written after the rules, some of them with a number or a name from elsewhere in the same sentence."""

import pytest

from builtin_tools.web.research.verification.quotes import QuotableText
from builtin_tools.web.research.verification.support import SupportCheck
from tests.builtin_tools.web.research.material_pages import FRESH, pages_of


@pytest.mark.parametrize("part", FRESH)
@pytest.mark.spec("WEB-4")
def test_changed_claims_are_found_and_most_true_ones_are_kept(part: str) -> None:
    check, kept, missed = SupportCheck(), 0, []
    claims = [(claim, page) for page in pages_of(part) for claim in page.claims]
    for claim, page in claims:
        (passage,) = QuotableText(page.text, page.title).find(claim.quote)
        supported = not check.unsupported(claim.text, passage)
        kept += supported and claim.changed is None
        missed += [claim.text] if supported and claim.changed is not None else []
    assert missed == []
    assert sum(claim.changed is None for claim, _ in claims) == 20
    assert kept >= 18
