"""What a user gets, compared with golden files. `pytest tests/golden --record` runs their steps again and writes them."""

import pytest

from golden.session import HERE, Session

pytestmark = pytest.mark.together("golden")  # one server


@pytest.fixture(scope="module")
def serve(zygote, tmp_path_factory):
    from golden.server import serving

    with serving(zygote, tmp_path_factory.mktemp("server")) as connect:
        yield connect


@pytest.mark.parametrize("golden", sorted(HERE.glob("*.txt")), ids=lambda file: file.stem)
def test_a_user_gets_the_golden_file(request, golden, command, tmp_path):
    def connect():
        return request.getfixturevalue("serve")(golden.stem)

    expected = golden.read_text("utf-8")
    session = Session(tmp_path, command, connect)
    given = session.play(expected)
    assert session.wide == []
    if request.config.getoption("--record"):
        golden.write_text(given, "utf-8")
    else:
        assert given == expected
