"""The detectors of every host, and the signals. To add one, write its file and add its class to the table."""

from assay.checks.safety.detector import Detector, SafetyCheck

DETECTORS: tuple[type[Detector], ...] = ()
SIGNALS: tuple[type[SafetyCheck], ...] = ()  # evidence beside the findings; a signal is never a finding
