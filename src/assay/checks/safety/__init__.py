"""The detectors of every host, and the signals. To add one, write its file and add its class to the table."""

from assay.checks.safety.data_exfiltration import DataExfiltration
from assay.checks.safety.detector import Detector, SafetyCheck
from assay.checks.safety.excessive_agency import ExcessiveAgency
from assay.checks.safety.jailbreak import Jailbreak
from assay.checks.safety.pii_leak import PiiLeak
from assay.checks.safety.prompt_injection import PromptInjection
from assay.checks.safety.refusal import Refusal
from assay.checks.safety.secret_leak import SecretLeak
from assay.checks.safety.system_prompt_leak import SystemPromptLeak
from assay.checks.safety.unsafe_output import UnsafeOutput
from assay.checks.safety.unsafe_tool_call import UnsafeToolCall

DETECTORS: tuple[type[Detector], ...] = (
    UnsafeToolCall,
    ExcessiveAgency,
    SecretLeak,
    PiiLeak,
    UnsafeOutput,
    DataExfiltration,
    PromptInjection,
    SystemPromptLeak,
    Jailbreak,
)
SIGNALS: tuple[type[SafetyCheck], ...] = (
    Refusal,
)  # evidence beside the findings; a signal is never a finding
