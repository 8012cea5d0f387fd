"""What `make growth` concludes from sizes."""

from __future__ import annotations

from collections import Counter

from tests.growth.measurement import Measurement
from tests.growth.roles import TURN
from tests.growth.verdict import RESTART, WORK, Bound, Verdict, described, judge
from tests.growth.walk import Structure

ITEMS = Structure("broker", "Thing._things", "items")
LINES = Structure(TURN, "thing.py look", "items")
UNITS = 10


def measured(structure: Structure, *sizes: int, kinds: str = "") -> list[Measurement]:
    """Make a measurement after each step; `kinds` has an "r" for a restart."""
    found: list[Measurement] = []
    units, life = 0, 0
    for number, size in enumerate(sizes):
        is_restart = kinds[number : number + 1] == "r"
        units, life = (units, life + 1) if is_restart else (units + UNITS, life)
        kind = RESTART if is_restart else WORK
        found.append(Measurement(kind, units, life, Counter({structure: size}), {}, 0.0, 0.0))
    return found


def judged(*sizes: int, structure: Structure = ITEMS, kinds: str = "", bounds: tuple[Bound, ...] = ()) -> Verdict:
    return judge(measured(structure, *sizes, kinds=kinds), bounds)


def test_what_is_larger_after_each_batch_has_grown() -> None:
    verdict = judged(10, 14, 18)
    assert [(g.structure, g.sizes, g.per_unit) for g in verdict.grown] == [(ITEMS, (10, 14, 18), 0.4)]
    assert "Thing._things: 10 14 18 items" in "\n".join(described(verdict))


def test_what_grows_once_or_by_little_has_not() -> None:
    assert not judged(10, 20, 20).grown
    assert not judged(10, 12, 14).grown
    assert not judged(10, 20).grown


def test_what_fills_up_has_not_grown() -> None:
    assert judged(146, 158, 170, 175).grown
    assert not judged(146, 158, 170, 174).grown
    assert not judged(397, 405, 416, 440, 447, 450).grown


def test_what_a_restart_empties_grows_in_one_life_after_the_other() -> None:
    assert judged(10, 20, 0, 10, 20, kinds="wwrww").grown
    assert not judged(10, 20, 0, 10, 10, kinds="wwrww").grown


def test_what_each_restart_reads_back_has_grown() -> None:
    (grown,) = judged(0, 10, 0, 20, 0, 30, kinds="wrwrwr").grown
    assert (grown.sizes, grown.after) == ((10, 20, 30), RESTART)


def test_bytes_are_counted_by_the_byte() -> None:
    of_bytes = Structure("broker", "Thing._data", "bytes")
    assert judged(0, 10, 20, structure=of_bytes).grown
    assert not judged(0, 9, 18, structure=of_bytes).grown


def test_a_turn_has_to_grow_by_its_share_too() -> None:
    assert judged(100, 110, 121, structure=LINES).grown
    assert not judged(100, 109, 118, structure=LINES).grown


def test_a_bound_is_kept_and_covers_something() -> None:
    bound = Bound("broker: Thing.*", 30, "a reason")
    within, above = judged(10, 20, 30, bounds=(bound,)), judged(10, 20, 31, bounds=(bound,))
    assert (within.grown, within.over, within.stale) == ((), (), ())
    assert above.over == (ITEMS,)
    assert judged(1, 1, bounds=(Bound("broker: Other.*", 30, "a reason"),)).stale
