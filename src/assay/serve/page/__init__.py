"""The page: its built files, and the sessions that sign a browser in. `make web` builds the files from `web/`."""
