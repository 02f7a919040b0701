"""The words by which both sides of a job find what they exchange; free of NVFlare, so that all may import it."""

TASK, QUESTION, ANSWER = "vedute", "question", "answer"
STATS = "vedute"  # under which the controller tells the lead how far it is
RESULT, OUTCOME = "vedute", "outcome.json"  # of a job: a folder, and in it how the job ended
AGREEMENT = "vedute.json"  # in the folder local of a center's kit: where the node file and the center's home are
AT_HOME = "vedute.site"  # the logger of what a center tells its own staff, who see it where they joined
# what a center's process says in its log
CONNECTED, LOST, BEGAN, ENDED = "the server is there", "the server does not answer", "a run began", "a run ended"
