"""The checks of OpenWOP, one file for each part of the contract."""
