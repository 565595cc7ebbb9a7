"""The detectors of every host, and the signals. To add one, write its file and add its class to the table."""

from assay.checks.safety.detector import Detector, SafetyCheck
from assay.checks.safety.excessive_agency import ExcessiveAgency
from assay.checks.safety.unsafe_tool_call import UnsafeToolCall

DETECTORS: tuple[type[Detector], ...] = (
    UnsafeToolCall,
    ExcessiveAgency,
)
SIGNALS: tuple[type[SafetyCheck], ...] = ()  # evidence beside the findings; a signal is never a finding
