"""A LangChain chat model whose memory is in its weights: invoke, and stream with the trace at the end."""

from plume_memory import Engine, ParametricMemory

engine = Engine.load("smollm2-135m", hypernetwork="none")  # compiled evidence: no training, answers at once
with ParametricMemory.open("bridge", url="sqlite:///bridge.db", engine=engine) as memory:
    memory.update("The Quillon Bridge was designed by Maren Holt and opened in 1911.", idempotency_key="bridge-1")
    llm = memory.as_chat_model(max_tokens=32)

    message = llm.invoke("Who designed the Quillon Bridge?")
    print(message.text)
    print(message.usage_metadata, message.response_metadata["plume"]["evidence"]["unit"]["text"])

    for chunk in llm.stream("In what year did the bridge open?"):
        print(chunk.text, end="", flush=True)
    print()
