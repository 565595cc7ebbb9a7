"""Exporters of trace spans: `otel`, to an OTLP collector."""
