"""What `python` does with its arguments, in a process that the zygote has forked: most modules are loaded already."""

import os
import runpy
import sys
import types


def main():
    arguments = sys.argv[1:]
    safe = "-P" in arguments[:1]  # no folder of the caller in front of the path
    arguments = arguments[safe:]
    while arguments[0] == "-W":  # the zygote itself runs with `-W error`
        arguments = arguments[2:]
    how, *rest = arguments
    if how == "-m":
        name, *rest = rest
        sys.argv = [name, *rest]
        if not safe:
            sys.path.insert(0, os.getcwd())
        sys.modules.pop(name, None)  # it has been loaded, and runs once more
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif how in ("-c", "-"):
        text = rest.pop(0) if how == "-c" else sys.stdin.read()
        sys.argv = [how, *rest]
        sys.path.insert(0, "")
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(text, "<string>" if how == "-c" else "<stdin>", "exec"), module.__dict__)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(how)))
        runpy.run_path(how, run_name="__main__")
