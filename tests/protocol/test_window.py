"""The receiver's window: what is granted is what was passed on, and growth."""

from hypothesis import given
from hypothesis import strategies as st

from relay.protocol.flood import Budget
from relay.protocol.limits import INITIAL_WINDOW
from relay.protocol.window import ReceiveWindow


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.integers(0, 1 << 20))))
def test_credit_is_conserved(steps: list[tuple[int, int, int]]) -> None:
    """`credit + unreturned + held == size` whatever comes, is consumed and grows."""
    window = ReceiveWindow(0.0)
    held = granted = 0
    for arriving, consumed, growth in steps:
        arrived = min(arriving, window.credit)
        window.credit -= arrived
        held += arrived
        count = min(consumed, held)
        held -= count
        if window.consume(count):
            granted += window.grant(growth, 0.0)
            assert window.unreturned == 0
        assert window.credit + window.unreturned + held == window.size
        assert window.unreturned < window.size / 2
    assert granted >= window.size - INITIAL_WINDOW


def test_growth_stops_at_the_limit() -> None:
    window = ReceiveWindow(0.0)
    assert window.growth(1.0, 1.0, INITIAL_WINDOW + 1) == 1
    assert window.growth(1.1, 1.0, INITIAL_WINDOW + 1) == 0
    assert window.growth(1.0, 1.0, INITIAL_WINDOW) == 0
    assert window.growth(1.0, 1.0, 10 * INITIAL_WINDOW) == INITIAL_WINDOW


def test_a_budget_is_renewed_after_its_period() -> None:
    budget = Budget(limit=2, period=10.0)
    assert [budget.spend(now) for now in (0.0, 9.9, 9.9, 10.0, 10.0, 19.9)] == [True, True, False, True, True, False]
