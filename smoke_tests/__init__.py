"""What must hold inside a built image: python -m smoke_tests --out DIR --data-dir DIR --lock LOCK --manifest FILE"""
