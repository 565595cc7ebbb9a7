"""Nothing of a file is dropped in silence: every member of every format is carried, or it is named with its place."""

import pytest

from support.interchange.whole_files import FILES, dropped, planted, write


@pytest.mark.parametrize("plant", [False, True], ids=["as it is", "with members of no tool"])
@pytest.mark.parametrize("case", FILES)
def test_every_member_of_a_file_is_carried_or_named(tmp_path, case, plant):
    name, files = FILES[case]
    count = [0]
    documents = write(tmp_path, files, (lambda one: planted(one, count)) if plant else lambda one: one)
    assert dropped(name, documents) == []
