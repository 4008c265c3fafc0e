"""What `check_config` looks at, and `diagnose` with it: findings about a configuration, each with its next step."""
