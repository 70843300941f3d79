// Vectors of 4, 8 and 16 floats; the compiler splits those that the instruction set does not have.
typedef float V4 __attribute__((vector_size(16)));
typedef float V8 __attribute__((vector_size(32)));
typedef float V16 __attribute__((vector_size(64)));
