"""An Open vSwitch of our own, for vSwitches and networks."""
