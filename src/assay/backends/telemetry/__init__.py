"""Where spans go: `otel`, to a collector that speaks OTLP."""
