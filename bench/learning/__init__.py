"""What runlore says about sessions, judged by people or agents who have not seen its rules.

Rules are written with one half of the sessions in view and judged on the other (`halves`). Sheets
for judges are drawn by a seed; only ids and verdicts are committed, no text of a transcript.
"""
