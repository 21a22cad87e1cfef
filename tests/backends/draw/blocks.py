"""A model with as many blocks as wanted, each an instance of its own: what a page has to cope with."""

TEXT = """spec many
from functions import softmax, layer_norm, gelu

config
    d = 8
    head = 2
    ffn = 16
    dk = d / head

block Attention(x[seq, d], m[key, d]) → [seq, d] = heads @ W_O
    where Q = x @ W_Q
          K = m @ W_K
          V = m @ W_V
          A = softmax[key](Q @[dk] K / √dk)
          heads = A @[key] V
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]

block Forward(x[d]) → [d] = gelu(u) @ W_2
    where u = x @ W_1
    weights W_1 : [d → ffn]
            W_2 : [ffn → d]

block Layer(x[seq, d]) → [seq, d] = layer_norm[d](z + f, ε = 0.00001)
    where a = attn(x, x[seq → key])
          z = layer_norm[d](x + a, ε = 0.00001)
          f = ff(z)
    uses attn : Attention
         ff : Forward

model Many(x[seq, d] as inputs) → out[seq, d] = h{last}
    where h0 = x + 1
{calls}
    uses {names} : Layer
"""


def spec_of(count: int) -> str:
    """The text of a spec whose model runs `count` layers one after the other."""
    names = ", ".join(f"b{i}" for i in range(count))
    calls = "\n".join(f"          h{i + 1} = b{i}(h{i})" for i in range(count))
    return TEXT.format(last=count, calls=calls, names=names)
