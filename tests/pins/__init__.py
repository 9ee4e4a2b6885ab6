"""What users have today, held while the code behind it moves: ids, help, plans, command lines."""
