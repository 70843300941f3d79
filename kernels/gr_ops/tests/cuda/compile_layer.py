"""Compiles for a Hopper GPU, without one, what the operators around the attention launch: what Triton's interpreter
takes, its compiler may refuse, and one program's shared memory may be too much."""

import inspect

import gr_ops  # noqa: F401
import torch
import triton
from gr_ops.cuda import operators
from gr_ops.cuda.layer import dropout, products, rows, training
from gr_ops.cuda.tokens import embed, scored
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.uint8: "*u8",
    torch.int64: "*i64",
    int: "i32",
    float: "fp32",
}
SHARED = 99 * 1024  # bytes of one program: those of Ada, and of half a multiprocessor of Hopper
done = []


def compile_one(kernel, programs, values, **options):
    """In the place of launch: compiles for what a launch of these values would."""
    assert programs > 0
    given = dict(zip(kernel.arg_names, values, strict=True))
    constants = {name: x for name, x in given.items() if name.isupper() or (type(x) is int and x == 1)}
    types = {
        name: TYPES[x.dtype if isinstance(x, torch.Tensor) else type(x)]
        for name, x in given.items()
        if name not in constants
    }
    if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
        types = {name: types.get(name, "constexpr") for name in given}
    source = ASTSource(kernel, types, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.metadata.shared <= SHARED, f"{kernel.fn.__name__}: {compiled.metadata.shared} bytes shared"
    done.append(kernel.fn.__name__)


def layer(stream, dtype, dim, width):
    """Forward and backward of both operators, and dropout: of tensors that nothing fills."""
    x, weight = torch.zeros(130, dim, dtype=stream), torch.zeros(dim, 4 * width, dtype=dtype)
    u, v, *_ = torch.ops.mxrec.hstu_projection(x.requires_grad_(), weight.requires_grad_(), [width] * 4, 1e-6)
    keep = torch.ops.mxrec.hstu_keep(u, 0.3, 2**63 - 1)
    output, bias = torch.zeros(dim, width, dtype=dtype), torch.zeros(dim, dtype=dtype)
    torch.ops.mxrec.hstu_gated_output(v, u, x, output, bias, keep, 1.0, 1e-6).sum().backward()


def training_step(dtype, dim, width):
    """Forward and backward of what stands before, in and behind a layer."""
    ids, offsets = torch.zeros(130, dtype=torch.long), torch.tensor([0, 130])
    tables = [torch.zeros(size, dim).requires_grad_() for size in (7, 3, 200)]
    x = embed.tokens(None, tables[0], ids, tables[1], ids, tables[2], ids, ids, offsets, 130, 2.0, 0.2, 5)
    weight, output = torch.zeros(dim, 4 * width), torch.zeros(dim, width)
    x, u, v, *_ = training.project(x, weight.requires_grad_(), (width,) * 4, 1e-6, dtype)
    x = training.add_gated(x, v, u, output.requires_grad_(), torch.zeros(dim), None, 1.0, 1e-6)
    scored.norm(x, ids[:1], torch.ones(dim).requires_grad_(), torch.zeros(dim), 1e-6, dtype).sum().backward()


def main() -> None:
    for module in (dropout, products, rows, embed, scored):
        module.launch = compile_one
    registered = operators.register("CPU")
    layer(torch.float32, torch.bfloat16, 512, 512)
    layer(torch.float32, torch.float32, 50, 40)  # tiles are cut
    training_step(torch.bfloat16, 512, 512)
    registered._destroy()
    print(f"{len(done)} kernels compiled: {' '.join(sorted(set(done)))}")


if __name__ == "__main__":
    main()
