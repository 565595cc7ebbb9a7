"""
A client over gRPC: `python over_grpc.py 127.0.0.1:8322 KEY`.

It needs grpcio, grpcio-tools, googleapis-common-protos and the proto; grpcio generates the stubs at the start. It runs an evaluation, streams
a second one, and reads the error of a third.
"""

import sys
from pathlib import Path

import grpc
from google.rpc.status_pb2 import Status

sys.path.append(str(Path(__file__).parents[2] / "proto"))
fep, services = grpc.protos_and_services("fep/v1/fep.proto")


def request(check: str = "contains"):
    evaluation = fep.EvaluationRequest()
    for id, question, answer in (
        ("fr", "What is the capital of France?", "Paris"),
        ("es", "What is the capital of Spain?", "I believe it is Barcelona."),
    ):
        evaluation.test_cases.add(id=id).input.string_value = question
        evaluation.outputs.add().value.string_value = answer
    shared = evaluation.checks.shared_checks.checks.add(type=check)
    shared.arguments.update({"text": "$.output.value", "phrases": ["Paris"]})
    return evaluation


def main(address: str, key: str) -> None:
    metadata = (("authorization", f"Bearer {key}"),)
    with grpc.insecure_channel(address) as channel:
        service = services.EvaluationServiceStub(channel)
        result = service.RunEvaluation(request(), metadata=metadata, timeout=30)
        for case in result.results:
            (check,) = case.check_results
            print(case.execution_context.test_case.id, dict(check.results))

        whole = fep.EvaluationRunResult()
        for progress in service.StreamEvaluation(request(), metadata=metadata, timeout=30):
            whole.MergeFrom(progress.final_result)  # a large result comes in parts
        print(progress.status, whole.summary.completed_checks, "checks")

        try:
            service.RunEvaluation(request("vibes"), metadata=metadata, timeout=30)
        except grpc.RpcError as refused:
            trailers = dict(refused.trailing_metadata())
            error = fep.FepError()
            Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(error)
            print(refused.code().name, error.code, dict(error.details)["problems"][0]["place"])


if __name__ == "__main__":
    main(*sys.argv[1:])
