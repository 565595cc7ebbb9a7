"""Traces of OpenTelemetry as cases: OTLP is read, spans are told apart by dialect, and a trace becomes a context."""
