"""The inputs of a node: the values of its ports (`PortValue`), from constants, variables and earlier nodes."""

from typing import Any

from assay.workflow.definition import Node
from assay.workflow.execution_state import Execution, RunStopped


def inputs_of(execution: Execution, node: Node) -> dict[str, Any]:
    """By port. A variable that is not set, or a node without that output, leaves its port absent."""
    inputs: dict[str, Any] = {}
    for name, port in node.inputs.items():
        match port:
            case {"type": "static", "value": value}:
                inputs[name] = value
            case {"type": "variable", "variableName": variable}:
                if variable in execution.variables:
                    inputs[name] = execution.variables[variable]
            case {"type": "connection", "nodeId": source, "outputKey": key}:
                if key in (outputs := execution.outputs.get(source, {})):
                    inputs[name] = outputs[key]
            case _:
                what = f"the input {name!r} has a type that is not supported"
                raise RunStopped("validation_error", what, node=node.id)
    return inputs
