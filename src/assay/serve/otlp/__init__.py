"""OTLP over HTTP: traces come in and are scored."""
