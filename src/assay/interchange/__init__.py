"""Files of other tools as cases, checks, recorded outputs and recorded scores."""
