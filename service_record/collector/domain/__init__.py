"""Reports, progress, budgets and verdicts: the rules by which a collector judges hosts. Pure."""
