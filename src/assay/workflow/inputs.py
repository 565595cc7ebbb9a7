"""What a node is given: the values of its ports (`PortValue`), from constants, variables and earlier nodes."""

from typing import Any

from assay.workflow.definition import Node
from assay.workflow.execution import Execution, RunStopped


def inputs_of(execution: Execution, node: Node) -> dict[str, Any]:
    """A variable that is not set, or a node that said nothing, leaves its port absent."""
    found: dict[str, Any] = {}
    for name, port in node.inputs.items():
        match port:
            case {"type": "static", "value": value}:
                found[name] = value
            case {"type": "variable", "variableName": variable}:
                if variable in execution.variables:
                    found[name] = execution.variables[variable]
            case {"type": "connection", "nodeId": source, "outputKey": key}:
                if key in (outputs := execution.outputs.get(source, {})):
                    found[name] = outputs[key]
            case _:
                what = f"the input {name!r} is of a kind that is not offered here"
                raise RunStopped("validation_error", what, node=node.id)
    return found
