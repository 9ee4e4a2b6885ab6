"""TRex as a generator: its server runs beside us, its client in a process of its own."""
