"""What a collector judges by: reports, progress, budgets and verdicts. Pure."""
