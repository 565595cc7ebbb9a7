"""The log of a server or a worker, and what it says to its operator."""

from assay.cli.console.console import log_messages
from assay.serve.web import logging


def configure_log(form: logging.Format, level: str) -> None:
    """Choose the form of log lines. With JSON, all that the process says is a log line."""
    logging.configure(form, level)
    if form == "json":
        log_messages(logging.message)
