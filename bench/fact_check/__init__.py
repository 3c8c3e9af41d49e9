"""`knackbox bench fact-check`: checks the claims of AVeriTeC with a scripted model."""
