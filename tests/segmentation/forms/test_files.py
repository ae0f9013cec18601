"""Files of every form: what is asked about one is said by a unit that says little else."""

import pytest

from tests.benches import bench

FORMS = bench("forms")


@pytest.mark.parametrize("file", FORMS.questions_of())
def test_a_unit_holds_each_answer_with_what_it_is_about_and_few_others(file: str) -> None:
    questions = FORMS.questions_of()[file]
    assert len(questions) == 8
    units = FORMS.cut(FORMS.text_of(file), before=False)
    for question in questions:
        found = [unit for unit in units if FORMS.holds(unit, question)]
        others = [sum(FORMS.holds(unit, other) for other in questions) for unit in found]
        assert found, question
        assert min(others) <= 3, question
