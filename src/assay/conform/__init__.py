"""Black-box checks of any FEP server and OpenWOP host."""
