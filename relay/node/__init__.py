"""The parts of a Server node, one concept a file; `node` wires them together and `relay.daemon` runs them."""
