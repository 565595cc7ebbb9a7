"""Options accept plain values without pydantic. The values and the refusals are those of Typer."""

import typer.main
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.main import NOT_PLAIN, app, plain_value, process_value


def commands_in(command):
    inner = getattr(command, "commands", {})
    return [found for name in inner for found in commands_in(inner[name])] if inner else [command]


COMMANDS = commands_in(typer.main.get_command(app))
PARAMS = [param for command in COMMANDS for param in command.params]


def form_of(param):
    about = param.type_descriptor.parameter_info
    return (
        str(param.type_descriptor.annotation),
        about.min,
        about.max,
        param.multiple,
        param.nargs,
        param.required,
    )


ONE_OF_EACH_FORM = {form_of(param): param for param in PARAMS}.values()
CONTEXT = typer.Context(COMMANDS[0])
NUMBERS = st.one_of(st.integers(-2, 110), st.floats(), st.integers(10**14, 10**17)).map(str)
TEXTS = st.one_of(NUMBERS, st.text("0159.-+_e ٣true", max_size=4), st.text(max_size=9))


def outcome(process, *arguments):
    try:
        return repr(process(*arguments))
    except typer.TyperException as refusal:
        return refusal.format_message()


@given(st.data())
def test_each_form_of_option_accepts_what_typer_accepts(data):
    value = data.draw(TEXTS)
    for param in ONE_OF_EACH_FORM:
        many = param.multiple or param.nargs == -1
        given = (value, "b") if many else value
        by_typer = type(param).process_value.__get__(param)
        assert outcome(process_value, param, by_typer, CONTEXT, given) == outcome(by_typer, CONTEXT, given), (
            param
        )


def test_defaults_and_texts_are_plain():
    """So most command lines load no pydantic. Typer handles the choices of `serve`."""
    described = {
        param.name: plain_value(param, param.default)
        for param in PARAMS
        if not callable(param.default) and not param.type_descriptor.is_choice
    }
    assert [name for name, value in described.items() if value is NOT_PLAIN] == []
    limits = [param for param in PARAMS if param.name == "limit"]
    assert [plain_value(param, "7") for param in limits] == [7] * len(limits)
    assert all(plain_value(param, "-1") is NOT_PLAIN for param in limits)
