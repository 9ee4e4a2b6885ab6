"""Plans: a scenario and a testbed become what each host gives to a deployment."""
