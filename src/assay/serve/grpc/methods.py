"""Every RPC with its scope: the server and its tests are made of this list."""

from assay.serve.fep.routes import CANCEL, CREATE, READ
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.batch import run_batch
from assay.serve.grpc.evaluations import get_evaluation, health_check, run_evaluation, stream_evaluation
from assay.serve.grpc.handler import Method
from assay.serve.grpc.operations import cancel_operation, get_operation, list_operations, start_evaluation

NOW, LATER = "fep.v1.EvaluationService", "fep.v1.AsyncEvaluationService"

METHODS = [
    Method(service=NOW, name="RunEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, answer=run_evaluation),
    Method(service=NOW, name="GetEvaluation", request=fep.GetEvaluationRequest, scope=READ, answer=get_evaluation),
    Method(service=NOW, name="HealthCheck", request=fep.HealthCheckRequest, scope=None, answer=health_check),
    Method(service=NOW, name="StreamEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, stream=stream_evaluation),
    Method(service=NOW, name="RunBatch", request=fep.BatchEvaluationRequest, scope=CREATE, answer=run_batch),
    Method(service=LATER, name="StartEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, answer=start_evaluation),
    Method(service=LATER, name="GetOperation", request=fep.GetOperationRequest, scope=READ, answer=get_operation),
    Method(service=LATER, name="ListOperations", request=fep.ListOperationsRequest, scope=READ, answer=list_operations),
    Method(service=LATER, name="CancelOperation", request=fep.CancelOperationRequest, scope=CANCEL, answer=cancel_operation),
]  # fmt: skip
