"""The run surface of OpenWOP over HTTP (contract §1–§6, §9)."""
