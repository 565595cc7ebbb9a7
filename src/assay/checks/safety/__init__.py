"""
The detectors of every host, and the signals, by type. To add one, write its file and a line of the table.

The tables hold names: a registry imports a class when a request first uses it.
"""

DETECTORS: dict[str, str] = {
    "unsafe_tool_call": "assay.checks.safety.unsafe_tool_call:UnsafeToolCall",
    "excessive_agency": "assay.checks.safety.excessive_agency:ExcessiveAgency",
    "secret_leak": "assay.checks.safety.secret_leak:SecretLeak",
    "pii_leak": "assay.checks.safety.pii_leak:PiiLeak",
    "unsafe_output": "assay.checks.safety.unsafe_output:UnsafeOutput",
    "data_exfiltration": "assay.checks.safety.data_exfiltration:DataExfiltration",
    "prompt_injection": "assay.checks.safety.prompt_injection:PromptInjection",
    "system_prompt_leak": "assay.checks.safety.system_prompt_leak:SystemPromptLeak",
}
# evidence beside the findings; a signal is never a finding
SIGNALS: dict[str, str] = {"refusal": "assay.checks.safety.refusal:Refusal"}
JUDGES: dict[str, str] = {
    "safety_judge": "assay.checks.safety.safety_judge:SafetyJudge"
}  # a policy switches it on
JUDGED = ("jailbreak",)  # the kinds that no detector sees
