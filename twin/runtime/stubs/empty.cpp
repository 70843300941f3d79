// Deliberately empty: what is not emulated is not exported.
