# Two commands: `make train` sets everything up and trains; `make test` sets everything up and runs the tests.
PYTHON ?= python3
BIN := .venv/bin

train: .venv/ready
	$(BIN)/python train.py --phases 6

test: .venv/ready
	$(BIN)/python -m pytest

.venv/ready: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo 'Python has no venv here; on Debian or Ubuntu: apt-get install python3-venv'; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m environment.browser
	@touch $@

.PHONY: train test
