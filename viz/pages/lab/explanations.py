"""Two plain sentences on each card of the Lab, and the symbols of its formulas, for whoever has read the paper once."""

from __future__ import annotations

from collections.abc import Mapping

from model.message import Message

# By the name of the experiment; the second message has a symbol and its meaning between semicolons.
EXPLANATIONS: Mapping[str, tuple[Message, Message | None]] = {
    "dot-product": (
        Message(
            "Attention compares a query with each key by a dot product: channel by channel multiplied, then added "
            "up. It depends on the angle between the two vectors, and on how long each of them is."
        ),
        Message(
            "q, k: a query and a key; ‖q‖: the length of q; cos(q, k): 1 where both point the same way, 0 where "
            "they are at right angles"
        ),
    ),
    "softmax": (
        Message(
            "Softmax turns any list of numbers into shares: none is negative, and together they are 1. The larger a"
            " number is beside the others, the more of the whole it gets."
        ),
        Message(
            "x: the scores; p: the shares; T: the temperature, above 1 the shares are more even; ∂p/∂x: how the "
            "shares change with the scores"
        ),
    ),
    "scaled-scores": (
        Message(
            "A score is a sum over the d_k channels of a head, so wide heads have larger scores by chance alone. "
            "The larger the scores, the more the softmax gives to a single key; the paper divides them by √d_k "
            "before it."
        ),
        Message(
            "q, k: a query and a key; K: all keys; d_k: the width of a head; s: the scores; w: their weights after "
            "softmax; f: the factor; L: the loss"
        ),
    ),
    "mask-places": (
        Message(
            "A mask says which tokens an attention may not look at: padding, which makes texts equally long, and "
            "tokens that come later. A Transformer has three attentions, and each may have a mask of its own."
        ),
        Message(
            "i, j: the token that looks, and the one it looks at; M: what is added to their score; −∞: j is hidden "
            "from i"
        ),
    ),
    "causal-mask": (
        Message(
            "A decoder writes one token after the other, so in training no token may see those that come after it. "
            "The causal mask hides them: an output may then depend on earlier tokens alone."
        ),
        Message("M: what is added to the scores; x_j: the input of token j; z_t: the output at token t"),
    ),
    "padding-mask": (
        Message(
            "Texts of a batch are made equally long with padding. The padding mask hides it from attention, so that"
            " each text should come out as if it were alone."
        ),
        Message(
            "b: the text of the batch; i, j: the token that looks, and the one it looks at; M: what is added to the"
            " score"
        ),
    ),
    "mask-shapes": (
        Message(
            "Masks are small tables that are repeated for all heads and queries. Two of them, one of the padding "
            "and one of the future, are joined into the mask of the decoder."
        ),
        Message("B: texts of the batch; L: tokens of a text; ∧: visible in both"),
    ),
    "mask-after-softmax": (
        Message(
            "A mask takes tokens out of attention by adding −∞ where they must not count. The question is on which "
            "side of the softmax this is done."
        ),
        Message("s: the scores; M: the mask, 0 or −∞"),
    ),
    "mask-number": (
        Message(
            "Code often writes a very large negative number in the place of −∞. After softmax both should leave a "
            "weight of 0, as far as the machine's numbers reach."
        ),
        Message("c: the number in the place of −∞; n: the keys of a row, all of them hidden here"),
    ),
    "order": (
        Message(
            "Attention compares tokens without asking where they stand. Positions are added so that the network can"
            " tell one order of the same tokens from another."
        ),
        Message("f: the network; x: the vectors of the tokens; π: another order of the tokens"),
    ),
    "sinusoid": (
        Message(
            "Each position gets a vector of sines and cosines, some of which swing fast and others slowly. Together"
            " they are like the hands of many clocks, of which no two positions should show the same time."
        ),
        Message(
            "pos: the position; i: the number of the pair of channels; base: 10000 in the paper; d_model: the width"
            " of the model"
        ),
    ),
    "fast-and-slow": (
        Message(
            "The code of a position consists of pairs, each a sine and a cosine of one wavelength. From a position "
            "to the next, each pair turns like the hand of a clock, at a speed of its own."
        ),
        Message(
            "PE⁽ⁱ⁾: pair i of the code; p: the position; base: 10000 in the paper; d_model: the width of the model"
        ),
    ),
    "position-50": (
        Message(
            "The code of a position is computed by a formula. Here the same position is looked at in tables of "
            "several lengths."
        ),
        Message(
            "pos: the position; i: the number of the pair of channels; base: 10000 in the paper; d_model: the width"
            " of the model"
        ),
    ),
    "base-1000": (
        Message(
            "The base of the formula sets how slowly the pairs of channels swing. Here the wavelengths of two bases"
            " stand side by side."
        ),
        Message("λ_i: the wavelength of pair i, in tokens; base: 10000 in the paper; d_model: the width of the model"),
    ),
    "rotation": (
        Message(
            "To go on by k positions, each pair of sine and cosine turns by an angle that depends on k alone. The "
            "question is whether one matrix does that at every position."
        ),
        Message(
            "PE_p: the code of position p; R_k: the matrix for k positions on; ω_i: how far pair i turns at each "
            "position, in radians"
        ),
    ),
    "wrong-sinusoid": (
        Message(
            "The paper counts pairs of channels, many programs count channels in a loop. Where the two are mixed "
            "up, other codes are computed."
        ),
        Message(
            "pos: the position; i: the number of the pair; c: the number of the channel; base: 10000 in the paper; "
            "d: the width of the model"
        ),
    ),
    "embedding-scale": (
        Message(
            "A token's vector and the code of its position are added, so the longer of the two counts for more. The"
            " paper multiplies the token's vector by √d_model first."
        ),
        Message(
            "PE_p: the code of position p; E_i: the embedding of token i, drawn at random; ‖…‖: the length of a "
            "vector; d_model: the width of the model"
        ),
    ),
    "embedding-division": (
        Message(
            "The network reads the sum of a token's vector and the code of its position. A factor before the vector"
            " decides how much of the token is left in that sum."
        ),
        Message(
            "x: what the network of the paper reads; x′: what it would read; E: the token's embedding; PE: the code"
            " of its position"
        ),
    ),
    "longer-texts": (
        Message(
            "Sinusoidal codes come from a formula and exist for every position, learned ones are rows of a table "
            "that training fills. Networks with either are trained on short texts here, and then read longer ones."
        ),
        Message("x_p: what the network reads at position p; E: the token's embedding; PE_p: the code of position p"),
    ),
    "worked-example": (
        Message(
            "Three short inputs go through one attention head, small enough to be followed with a pencil. A "
            "tutorial gives the results; here each step is computed without rounding."
        ),
        Message(
            "X: the three inputs, a row each; W^Q, W^K, W^V: the matrices that make queries, keys and values of "
            "them; d_k: the width of the head"
        ),
    ),
    "attention-formula": (
        Message(
            "Each query is compared with all keys, softmax turns the scores into weights, and the values are "
            "averaged with these weights. The formula is computed step by step here, and compared with what the "
            "model gives."
        ),
        Message(
            "Q, K, V: queries, keys and values, a row for each token; d_k: the width of a head; M: the mask, 0 or −∞"
        ),
    ),
    "kinds-of-models": (
        Message(
            "An encoder reads a whole text at once, a decoder from left to right. Inside, they differ in which "
            "tokens each token may see."
        ),
        Message(
            "i, j: the token that looks, and the one it looks at; M: what is added to their score; −∞: j is hidden "
            "from i"
        ),
    ),
    "cross-attention": (
        Message(
            "In cross-attention the text that is being written looks at the text that was read. Changing one of the"
            " two shows which of queries, keys and values come from it."
        ),
        Message(
            "X_dec, X_enc: the states of decoder and encoder; W^Q, W^K, W^V: the matrices for queries, keys and "
            "values; n: tokens of a text"
        ),
    ),
    "feed-forward": (
        Message(
            "After attention has mixed the tokens, a network of two layers works on their vectors. The question is "
            "whether it sees one token at a time."
        ),
        Message(
            "x_i: the vector at position i; W_1, b_1: into the units; W_2, b_2: out of them; max(0, …): ReLU, a "
            "unit below 0 is off"
        ),
    ),
    "encoder-softmax": (
        Message(
            "A linear layer and a softmax turn a state into a probability for each token of the vocabulary. The "
            "question is where in the Transformer they stand."
        ),
        Message("p: the probabilities; X_dec, X_enc: the states of decoder and encoder; W, W^K, W^V: learned matrices"),
    ),
    "several-heads": (
        Message(
            "A layer has several heads, each with a map of its own, and Wᴼ joins what they bring. Each is taken "
            "away here once, to see how much the predictions need it."
        ),
        Message(
            "head_i: the output of head i; W^O: the matrix that joins the heads; p_t: the prediction at token t; "
            "KL: how far the prediction moves, 0 is not at all"
        ),
    ),
    "maps-and-effects": (
        Message(
            "A map says how much of each token a head mixes in. Hiding a token says what it does to the prediction;"
            " here the two are compared."
        ),
        Message(
            "e_j: how much less probable the text that was written is without token j; p_i(y_i): the probability of"
            " its token i; Ā: the mean map; r: how alike the two orders of tokens are, 1 is the same"
        ),
    ),
    "wide-heads": (
        Message(
            "The paper cuts the model's width into narrow heads. Here networks whose heads are each as wide as the "
            "model are trained beside them."
        ),
        Message(
            "h: the number of heads; d_k: the width of one; d_model: the width of the model; W^Q_i, W^K_i, W^V_i: "
            "the matrices of head i"
        ),
    ),
    "layer-norm": (
        Message(
            "A norm takes the channels of one token, subtracts their mean and divides by how far they spread. "
            "Tutorials and libraries differ in how that is computed, and in where the tiny ε stands."
        ),
        Message(
            "x: the n channels of one token; μ: their mean; σ: their deviation with n; s: with n − 1; ε: a tiny "
            "number, so that nothing is divided by 0"
        ),
    ),
    "pre-norm-formula": (
        Message(
            "In each block the result of a sublayer is added to the stream. The two formulas differ in what is "
            "normalised: what the sublayer reads, or the stream itself."
        ),
        Message("x: the stream; Sublayer: an attention or a feed-forward network"),
    ),
    "dropout": (
        Message(
            "In training, dropout sets numbers to 0 by chance, so that the network does not rely on single ones. "
            "Those that are left are made larger."
        ),
        Message(
            "x_i: a number; y_i: what becomes of it; m_i: 1 where it stays, 0 where it is dropped; p: the rate of "
            "dropout; E, Var: mean and variance over many draws"
        ),
    ),
    "batch-norm": (
        Message(
            "Both norms subtract a mean and divide by a deviation; they differ in what these are taken over. "
            "LayerNorm takes the channels of one token, BatchNorm one channel of all tokens of all texts."
        ),
        Message(
            "x: the inputs; t: the position; i: the channel; b: the text; d: channels; L: positions; B: texts; μ: "
            "the mean"
        ),
    ),
    "without-residuals": (
        Message(
            "A residual adds what enters a block to what leaves it. Here networks without it are trained beside "
            "networks that have it."
        ),
        Message("x: the stream; S: an attention or a feed-forward network; LN: the norm"),
    ),
    "residual-gradient": (
        Message(
            "A network learns from gradients that travel back through all its layers. The residual offers them a "
            "way around each block."
        ),
        Message(
            "x_ℓ: the stream before block ℓ; x_L: at the end; S: what a block computes; I: the identity, which "
            "changes nothing; ∂x_L/∂x_ℓ: how the end changes with the stream at ℓ"
        ),
    ),
    "wrong-pre-norm": (
        Message(
            "A formula that is often copied adds the norm beside the sublayer instead of putting it before. "
            "Networks after each of the formulas are trained here on the same batches."
        ),
        Message("x: the stream; S: an attention or a feed-forward network; LN: the norm"),
    ),
    "post-norm-depth": (
        Message(
            "A norm stands behind each residual sum (post-norm, as in the paper) or before each sublayer "
            "(pre-norm). Both are trained here, with and without a warm-up of the learning rate, and at several "
            "depths."
        ),
        Message("L: the loss; θ_ℓ: the weights of layer ℓ; ‖∂L/∂θ_ℓ‖: the length of their gradient"),
    ),
    "tied-weights": (
        Message(
            "A table turns tokens into vectors at the bottom, and a matrix turns vectors into tokens at the top. "
            "Where both are one, its weights are counted once."
        ),
        Message(
            "V_s, V_t: the tokens of the vocabulary of source and target; V: of one for both; d: the width of the model"
        ),
    ),
    "wide-heads-cost": (
        Message(
            "The paper cuts the width d into h heads of d/h. Here each head is d wide instead, and weights and time"
            " are compared."
        ),
        Message("d: the width of the model; h: the number of heads"),
    ),
    "kv-cache": (
        Message(
            "A model that writes needs the keys and values of all tokens so far at each step, so it keeps them. The"
            " cache is measured here, and compared with the formula."
        ),
        Message(
            "L: layers; h_kv: heads of keys and values; h: all heads; d_k: the width of a head; n: tokens; d_c, "
            "d_R: channels of the latent and of its rotary key; w: the width of the window"
        ),
    ),
    "attention-cost": (
        Message(
            "Every token is compared with every other, so a text twice as long has four times as many scores. "
            "Operations are counted here, time and memory are measured."
        ),
        Message(
            "n: tokens; d: the width of the model; h: heads, each d_k wide; A: the weights; t: the time; c: a "
            "constant; e: the power of n by which it grows"
        ),
    ),
    "heads-cost": (
        Message(
            "The same width d can be cut into few wide heads or many narrow ones. Here the same weights are cut in "
            "each way, and timed."
        ),
        Message("n: tokens; d: the width of the model; h: the number of heads"),
    ),
    "additive-attention": (
        Message(
            "A pair of tokens can be scored by a dot product, or by a small network with tanh, as Bahdanau did "
            "before the paper. Both are counted and timed here."
        ),
        Message(
            "e_ij: the score of the pair i, j; q_i, k_j: a query and a key; s_i, h_j: the two states that are "
            "compared; v, W, U: learned weights; d: the width"
        ),
    ),
    "speed-ups": (
        Message(
            "Five ways are said to make a Transformer faster. Each is tried alone here, and timed on this machine."
        ),
        None,
    ),
    "paper-sizes": (
        Message(
            "The paper has two models, base and big. Their sizes are counted here, and how much memory the maps of "
            "a long text take is measured."
        ),
        Message("h: heads; n: tokens; 4 bytes: a number in float32"),
    ),
    "variants-cost": (
        Message(
            "Full attention compares all pairs of tokens; its variants leave pairs out or put tokens together. How "
            "their time grows with the length of the text is measured here."
        ),
        Message("t: the time; n: tokens; p: the power of n by which it grows; c: a constant"),
    ),
    "parameter-free": (
        Message(
            "Attention without any learned matrix compares the vectors of the tokens with each other, and averages "
            "them. Here one sees, step by step, what that gives."
        ),
        Message("X: the vectors of the tokens, a row each; Y: the outputs"),
    ),
    "bahdanau": (
        Message(
            "Before the Transformer a recurrent network read the text, and attention chose among its states for "
            "each written word. Its three steps are shown here on a model of that kind."
        ),
        Message(
            "s: the state of the decoder; h_j: the state of the encoder at source token j; e: scores; α: weights; "
            "c: the context; v, W, U: learned weights"
        ),
    ),
    "recommendation": (
        Message(
            "A shop knows what customers bought, and wonders what they buy next. With attention, the candidate "
            "weighs each purchase by how alike they are, instead of averaging all of them."
        ),
        Message(
            "q: the candidate; k_j, v_j: purchase j; w_j: its weight; u: what stands for the customer; d: channels "
            "of an item"
        ),
    ),
    "attention-variants": (
        Message(
            "Full attention compares all pairs of tokens; its variants leave pairs out, put tokens together or "
            "share keys. Each takes the place of one head's attention here, and one sees how far the output moves."
        ),
        Message(
            "Q, K, V: queries, keys and values; i, j: the token that looks, and the one it looks at; w: the width "
            "of window or block; s: the sinks; E, F: shorten the text to k rows; φ: makes positive features; g(i): "
            "the group of head i; c_j: the latent; λ: the share of the second map that is taken away"
        ),
    ),
    "layers-compared": (
        Message(
            "Recurrence, convolution and attention are three ways to let tokens know of each other. They differ in "
            "how many steps lie between two tokens, and in how much is computed."
        ),
        Message(
            "x_t, h_t, y_t: input, state and output at token t; z_t, r_t: gates; W, U, b: learned weights; k: "
            "tokens that a convolution joins; Q, K, V: queries, keys and values"
        ),
    ),
    "bleu": (
        Message(
            "BLEU compares a translation with a person's by the runs of words that they share. Here words of right "
            "translations are exchanged and repaired again, to see how the score follows."
        ),
        Message(
            "c, r: the lengths of translation and reference; p_n: the share of the translation's runs of n words "
            "that are in the reference too"
        ),
    ),
    "data-lesson": (
        Message(
            "Two networks begin with the same weights, and learn from different texts. Then both are asked the same"
            " question."
        ),
        Message(
            "p_t, q_t: the probability of token t in the two networks; the sum: 0 where they agree, 1 where they "
            "have nothing in common"
        ),
    ),
    "tied-matrices": (
        Message(
            "The table that turns tokens into vectors can also turn vectors back into tokens. Networks that share "
            "it are trained here beside networks that do not."
        ),
        Message("E: the embeddings; W: the output matrix; x: the last state"),
    ),
    "label-smoothing": (
        Message(
            "Label smoothing asks for a little less than all the probability on the right token. Networks are "
            "trained here with it and without it."
        ),
        Message(
            "q_k: the probability that is asked for token k; y: the right token; ε: what is shared among all "
            "tokens; V: tokens of the vocabulary"
        ),
    ),
    "recipe": (
        Message(
            "Four habits are said to be needed for the training of a Transformer. Each of them is left out alone "
            "here, and the losses are compared."
        ),
        Message(
            "η: the learning rate; t: the step; w: steps of warm-up; W: the initial weights; n: inputs and outputs "
            "of their matrix; g: the gradient; c: the length to which it is cut"
        ),
    ),
    "data-needed": (
        Message(
            "Attention knows nothing of order before it learns it; a recurrent network reads one token after the "
            "other. Both are trained here on more and more examples."
        ),
        None,
    ),
    "variants-trained": (
        Message(
            "Here each variant takes the place of full attention from the first step on, and learns the same task. "
            "One sees how much of full attention's gain it reaches."
        ),
        Message(
            "ℓ_0: the loss of token frequencies, of a model that has learned nothing else; ℓ_full: the loss of full"
            " attention; ℓ_variant: that of the variant"
        ),
    ),
}
