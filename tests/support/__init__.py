"""What tests are built from: wires, certificates, clusters, clocks."""
