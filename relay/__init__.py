"""The data plane: the protocol, who may enter, where a stream goes, and the processes that carry it."""
