"""The web app: pages over what `query`, `usage`, `search` and `live` answer, for one person on
their own machine.

`app.py` puts it together, `guard.py` decides who may ask, one file for each group of pages. Pages
are made on the server; the scripts in `static/` make them quicker to use, and nothing is fetched
from elsewhere. Nothing here writes to the store.
"""
