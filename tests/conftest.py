"""What the whole suite shares: pytest's own way of running pytest in a test."""

pytest_plugins = ["pytester"]
