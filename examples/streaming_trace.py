"""Stream an answer, then look at how each token came about: the two streams' divergence and the evidence's weight."""

from langchain_plume import ChatPlume

from plume_memory import Engine, ParametricMemory

engine = Engine.load("smollm2-135m")
with ParametricMemory.open("bridge", url="sqlite:///bridge.db", engine=engine) as memory:
    memory.update("The Quillon Bridge was designed by Maren Holt and opened in 1911.", idempotency_key="bridge-1")
    llm = ChatPlume(memory=memory, max_tokens=32, top_candidates=1)

    last = None
    for chunk in llm.stream("Who designed the Quillon Bridge?"):
        print(chunk.text, end="", flush=True)
        last = chunk
    print()

    plume = last.response_metadata["plume"]
    print(f"version {plume['version']}, evidence: {plume['evidence']['unit']['text']}")
    print(f"{'token':>12}  {'JS':>5}  {'weight':>6}  global would say / evidence would say")
    for token in plume["trace"]:
        would = [token[side][0]["text"] for side in ("global_top", "evidence_top")]
        print(f"{token['text']!r:>12}  {token['js']:5.3f}  {token['weight']:6.3f}  {would[0]!r} / {would[1]!r}")
