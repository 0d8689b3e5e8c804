"""What a collector does with what came: looks into bundles, judges records, tells webhooks, and forgets."""
