"""What results say: counts, statistics, slices, cost, reasons."""
